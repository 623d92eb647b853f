from pilothouse.client.chats import Chat as Chat
from pilothouse.client.chats import Saying as Saying
from pilothouse.client.clients import AsyncClient as AsyncClient
from pilothouse.client.clients import Client as Client
from pilothouse.client.decisions import Decision as Decision
from pilothouse.client.failures import ServerFailed as ServerFailed
from pilothouse.client.failures import Unreachable as Unreachable
from pilothouse.client.runs import Approval as Approval
from pilothouse.client.turns import AsyncTurn as AsyncTurn
from pilothouse.client.turns import Turn as Turn

__all__ = [
    "Approval",
    "AsyncClient",
    "AsyncTurn",
    "Chat",
    "Client",
    "Decision",
    "Saying",
    "ServerFailed",
    "Turn",
    "Unreachable",
]
