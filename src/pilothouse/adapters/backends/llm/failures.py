"""What goes wrong between us and a model, as one sentence that says what to do, and whether trying again may help."""

from __future__ import annotations

import logging
import re
import traceback

import anthropic
import openai
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelServerError,
    ModelUnavailableError,
    UserError,
)

from pilothouse.adapters.backends.llm.config import LlmConfig
from pilothouse.adapters.backends.llm.oddity import Odd
from pilothouse.errors import BackendFailed

log = logging.getLogger("pilothouse.llm")

MAX_SAID = 600
"""Characters of a provider's own words that are repeated."""
_TOO_LONG = re.compile(
    r"context[ _](length|window|size)|exceed_context_size|maximum (prompt|input|sequence) length|prompt is too long"
    r"|too many (input |prompt )?tokens|input is too long|longer than the model'?s context|n_ctx",
    re.IGNORECASE,
)
_WITH_STATUS = (ModelHTTPError, openai.APIStatusError, anthropic.APIStatusError)
_KINDS: dict[int, type[ModelAPIError]] = {
    401: ModelAuthenticationError,
    403: ModelAuthenticationError,
    404: ModelNotFoundError,
    429: ModelRateLimitError,
    503: ModelUnavailableError,
}
_TRANSIENT = (ModelRateLimitError, ModelUnavailableError, ModelServerError, ModelConnectionError, TimeoutError)


def too_long(error: Exception) -> bool:
    """Whether the model refused because it was given more than it takes, however its server words that."""
    if isinstance(error, ModelContextWindowExceededError):
        return True
    return isinstance(error, ModelRequestRejectedError) and _TOO_LONG.search(_said(error)) is not None


def failure(error: Exception, config: LlmConfig, model: str) -> BackendFailed:
    """The same as an error of ours. No word of it holds the key."""
    status = error.status_code if isinstance(error, _WITH_STATUS) else 0
    error = _as_models_raise(error, model)
    retry_after = getattr(error, "retry_after", None) or 0
    return BackendFailed(
        config.hidden(_sentence(error, config, model, status)),
        transient=isinstance(error, _TRANSIENT),
        retry_after_ms=round(retry_after * 1000),
        status=status,
    )


def _as_models_raise(error: Exception, model: str) -> Exception:
    """What the providers' own libraries raise, which are asked for lists of models, as the model library words it."""
    match error:
        case openai.APIStatusError() | anthropic.APIStatusError():
            kind = _KINDS.get(error.status_code, ModelServerError if error.status_code >= 500 else ModelAPIError)
            return kind(model, error.message, body=error.body)
        case openai.APITimeoutError() | anthropic.APITimeoutError():
            return TimeoutError()
        case openai.APIConnectionError() | anthropic.APIConnectionError():
            return ModelConnectionError(model, error.message, phase="connect")
    return error


def _sentence(error: Exception, config: LlmConfig, model: str, status: int) -> str:
    said = config.hidden(_said(error))[:MAX_SAID]  # cut last: a part of the key would not be known
    told = f": {said}" if said else ""
    code = f" ({status})" if status else ""
    match error:
        case ModelAuthenticationError():
            missing = "set PILOTHOUSE_LLM_API_KEY" if not config.api_key else "check PILOTHOUSE_LLM_API_KEY"
            return f"{config.place} refuses the key{code}; {missing}{told}"
        case ModelNotFoundError():
            what = f"{config.place} has no model {model!r}, or nothing answers at this address{code}"
            return f"{what}; check PILOTHOUSE_LLM_MODEL and PILOTHOUSE_LLM_BASE_URL{told}"
        case ModelQuotaExceededError():
            return f"The account at {config.place} has nothing left{code}{told}"
        case ModelRateLimitError():
            return f"{config.place} takes no more requests just now{code}{told}"
        case ModelUnavailableError():
            return f"{config.place} is overloaded or down{code}{told}"
        case ModelServerError():
            return f"{config.place} failed{code}{told}"
        case ModelConnectionError(phase="connect" | "pool"):
            return f"Nobody answers at {config.place}; is it running, and is PILOTHOUSE_LLM_BASE_URL right?"
        case ModelConnectionError():
            return f"The connection to {config.place} broke off{told}"
        case TimeoutError():
            return f"{config.place} did not answer in time"
        case ModelAPIError():
            return f"{config.place} refuses the request for {model!r}{code}{told}"
        case UserError():
            return f"{config.place} cannot be asked for {model!r}{told}"
    # Whatever else a library raises is about an answer that it could not read: the turn is to say so, and to end.
    log.warning("llm.not_understood: %s", config.hidden("".join(traceback.format_exception(error))))
    where = f" where it says: {said}" if isinstance(error, Odd) and said else ""
    return f"The answer of {config.place} could not be understood{where}"


def _said(error: Exception) -> str:
    """The provider's own words, out of whatever they are wrapped in."""
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        inner = body.get("error", body)
        message = inner.get("message") if isinstance(inner, dict) else inner
        if isinstance(message, str) and message:
            return message
    if isinstance(body, str) and body:
        return body
    return str(error)
