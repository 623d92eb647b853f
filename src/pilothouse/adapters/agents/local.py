"""The agents of this machine: what the engine asks of them, put together from drivers, discovery, commands and prices.

Owns which driver, program and model do a piece of work. Starts nothing but brief questions to programs (``probe``): the
commands it makes are for an executor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from pilothouse.adapters.agents.assignments import Chosen, assign
from pilothouse.adapters.agents.commands import CommandFactory
from pilothouse.adapters.agents.discovery import Discovery, Found
from pilothouse.adapters.agents.driver import AgentDriver
from pilothouse.adapters.agents.models import model_infos, suggest
from pilothouse.adapters.agents.prices import PriceFile
from pilothouse.adapters.agents.pricing import price_of, priced
from pilothouse.adapters.agents.private import PrivateFiles
from pilothouse.adapters.agents.redacted import RedactedReader
from pilothouse.adapters.agents.registry import Drivers
from pilothouse.adapters.agents.suggestions import unknown_model, unlisted
from pilothouse.core.plan.effects import AnswerAgent, RunWork
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.run.agents import AgentConfig, AgentInfo, AgentReader, ModelInfo, Permissions
from pilothouse.core.run.commands import Command
from pilothouse.core.run.usage import Usage
from pilothouse.errors import BadInput, PilothouseError, Unavailable


class LocalAgents:
    """Implements the engine's ``Agents`` port."""

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        private_root: Path,
        config: Mapping[str, AgentConfig] | None = None,
        prices: Path | None = None,
        drivers: Drivers | None = None,
        data_dir: Path | None = None,
    ) -> None:
        """``environ`` is the host's environment; ``private_root`` lies outside of all worktrees, and is ours alone;
        ``data_dir`` (by default the directory above that) is what no sandbox shows.

        Raises ``BadInput`` for settings of agents, or a price table, that are wrong."""
        self._drivers = drivers or Drivers(config or {})
        self._private = PrivateFiles(private_root.absolute())
        self._prices = PriceFile(prices)
        self._discovery = Discovery(environ, self._private)
        self._make = CommandFactory(environ, self._drivers, self._private, data_dir)

    async def check(self, spec: AgentSpec, permissions: Permissions = Permissions.ALLOW) -> None:
        wanted = spec.permissions or permissions
        driver = await asyncio.to_thread(self._driver, spec.agent, wanted)
        driver.check(spec, wanted)
        await self._choose(spec, driver)

    async def command(self, work: RunWork) -> Command:
        chosen = None
        if isinstance(work.spec, AgentSpec):
            try:
                driver = await asyncio.to_thread(self._driver, work.spec.agent, work.permissions)
                chosen = await self._choose(work.spec, driver)
            except Unavailable as error:  # it was there when the plan was accepted
                raise BadInput(str(error), field="agent") from None
        try:
            return await asyncio.to_thread(self._make, work, chosen)
        except Unavailable as error:
            raise BadInput(str(error)) from None
        except OSError as error:
            raise BadInput(f"its private files cannot be written: {error}") from None

    def reader(self, work: RunWork) -> AgentReader:
        assert isinstance(work.spec, AgentSpec)
        chosen = self._recalled(work)
        driver = self._drivers.require(chosen.agent)
        config = self._drivers.config_of(driver, work.spec.agent)
        reader = driver.reader(assign(work, work.spec, driver, chosen, config, private=self._private))
        return RedactedReader(reader, self._make.secrets(work, work.spec, driver.facts, config))

    def priced(self, model: str, usage: Usage) -> Usage:
        return priced(model, usage, self._prices.table)

    async def answer(self, answer: AnswerAgent) -> None:
        run = self._private.run(answer.plan_id, answer.node_id, answer.output)
        await asyncio.to_thread(
            self._private.answer, run, answer.request_id, allowed=answer.allowed, remember=answer.remember
        )

    async def forget(self, plan_id: str) -> None:
        await asyncio.to_thread(self._private.forget, plan_id)

    async def agents(self, *, fresh: bool = False) -> list[AgentInfo]:
        return list(await asyncio.gather(*(self._info(name, fresh) for name in self._drivers)))

    async def models(self, agent: str | None = None, *, fresh: bool = False) -> list[ModelInfo]:
        if agent is not None and agent not in self._drivers:
            raise unlisted(agent, self._drivers)
        names = [agent] if agent is not None else list(self._drivers)
        found = await asyncio.gather(*(self._models_of(name, fresh) for name in names))
        return [info for infos in found for info in infos]

    # Who does the work, and with what.

    def _driver(self, name: str, permissions: Permissions) -> AgentDriver:
        """The driver for an agent that a plan names; may import a package. Raises ``BadInput``, ``Unavailable``."""
        driver = self._drivers.require(name)
        if permissions is not Permissions.ASK or driver.facts.asks:
            return driver
        if driver.facts.asking:
            return self._drivers.require(driver.facts.asking)
        able = ", ".join(self._askers())
        raise BadInput(
            f"{name} cannot ask for permission", field="permissions", fix=f"use one that can: {able}" if able else ""
        )

    def _askers(self) -> Iterable[str]:
        for name in self._drivers:
            try:
                facts = self._drivers.require(name).facts
            except Unavailable:
                continue
            if facts.asks or facts.asking:
                yield name

    async def _choose(self, spec: AgentSpec, driver: AgentDriver) -> Chosen:
        """Raises ``BadInput`` for a model it does not offer, ``Unavailable`` for what is not here."""
        config = self._config_of(driver, spec.agent)
        found = await self._discovery.find(driver, config)
        model = spec.model or config.model
        if spec.model or spec.model_tier is not None:
            offered = await self._offered(driver, config, found)
            if spec.model and offered and spec.model not in offered:
                raise unknown_model(spec.model, driver.facts.name, offered)
            if not spec.model and spec.model_tier is not None:
                model = suggest(spec.model_tier, offered) or config.model
                if not model:
                    raise BadInput(
                        f"{driver.facts.name} does not tell which models it offers, so none can be chosen by tier",
                        field="modelTier",
                        fix="say model instead",
                    )
        return Chosen(agent=driver.facts.name, model=model, program=found.program)

    async def _offered(self, driver: AgentDriver, config: AgentConfig, found: Found) -> tuple[str, ...]:
        """Empty when that is not known, or an endpoint of the user's own decides."""
        if config.base_url:
            return ()
        try:
            return await self._discovery.models(driver, found, self._env(driver, config))
        except Unavailable:
            return ()  # it does not tell today; it will say itself what it makes of the model

    def _config_of(self, driver: AgentDriver, asked: str) -> AgentConfig:
        """Raises ``Unavailable`` when the key it is to use is not there."""
        config = self._drivers.config_of(driver, asked)
        if config.api_key_env and not self._make.host.get(config.api_key_env):
            raise Unavailable(
                f"{driver.facts.title}: the variable {config.api_key_env}, which agents.{asked}.apiKeyEnv "
                "names, is not set where the server runs"
            )
        return config

    def _env(self, driver: AgentDriver, config: AgentConfig) -> dict[str, str]:
        return self._make.host.for_agent(driver.facts, config, config.env)

    def _recalled(self, work: RunWork) -> Chosen:
        """What the run was launched with, maybe by another owner; else what the plan says."""
        assert isinstance(work.spec, AgentSpec)
        kept = self._private.recall(self._private.run(work.plan_id, work.node_id, work.output))
        try:
            return msgspec.json.decode(kept, type=Chosen)
        except msgspec.MsgspecError:
            return Chosen(agent=self._driver(work.spec.agent, work.permissions).facts.name, model=work.spec.model)

    # What there is, for people.

    async def _info(self, name: str, fresh: bool) -> AgentInfo:
        try:
            driver = await asyncio.to_thread(self._drivers.require, name)
        except Unavailable as error:
            return AgentInfo(name=name, title=name, installed=False, problem=str(error))
        facts = driver.facts
        info = AgentInfo(
            name=name,
            title=facts.title,
            installed=False,
            resumes=facts.resumes,
            asks=facts.asks or bool(facts.asking),
            acp=facts.acp,
            install=facts.install,
        )
        try:
            config = self._config_of(driver, name)
            found = await self._discovery.find(driver, config, fresh=fresh)
        except Unavailable as error:
            return msgspec.structs.replace(info, problem=str(error))
        env = self._env(driver, config)
        login = await asyncio.to_thread(driver.login, env, config)
        try:
            models = len(await self._discovery.models(driver, found, env, fresh=fresh)) or None
        except Unavailable:
            models = None
        return msgspec.structs.replace(
            info,
            installed=True,
            version=found.version,
            path=found.path,
            logged_in=login.ok,
            login=login.how,
            models=models,
        )

    async def _models_of(self, name: str, fresh: bool) -> list[ModelInfo]:
        try:
            driver = await asyncio.to_thread(self._drivers.require, name)
            config = self._config_of(driver, name)
            found = await self._discovery.find(driver, config, fresh=fresh)
            models = await self._discovery.models(driver, found, self._env(driver, config), fresh=fresh)
        except PilothouseError:
            return []  # what is wrong with it, `agents` says
        return model_infos(models, name, lambda model: price_of(model, self._prices.table) is not None)
