from pilothouse.client import AsyncClient as AsyncClient
from pilothouse.client import Client as Client

__all__ = ["AsyncClient", "Client"]
