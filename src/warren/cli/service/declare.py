"""How a command of the service is declared, and how a plain command line of it is read.

Typer takes longer to load than the service takes to keep a job. So these commands are data: a
command line without a mistake is read here. Help and mistakes are left to Typer, which gets its
parameters from the same data (``as_typer.py``).
"""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing, which takes long to load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Final


class Option:
    """An option of a command.

    ``read`` makes a value of what was typed, or raises ValueError with the fault; an option
    without it is a switch. If it may be given ``many`` times, its value is a tuple.
    """

    __slots__ = ("flags", "help", "many", "metavar", "name", "read")

    def __init__(
        self,
        flags: str,
        help_: str,
        metavar: str = "",
        read: Callable[[str], Any] | None = None,
        *,
        name: str = "",
        many: bool = False,
    ) -> None:
        self.flags: Final = tuple(flags.split())
        self.help: Final = help_
        self.metavar: Final = metavar
        self.read: Final = read
        self.name: Final = name or self.flags[0].lstrip("-").replace("-", "_")
        self.many: Final = many


class Argument:
    """An argument of a command; only the last one may be given ``many`` times or be left out."""

    __slots__ = ("help", "many", "metavar", "name", "read", "required")

    def __init__(
        self,
        name: str,
        metavar: str,
        help_: str,
        read: Callable[[str], Any] = str,
        *,
        many: bool = False,
        required: bool = True,
    ) -> None:
        self.name: Final = name
        self.metavar: Final = metavar
        self.help: Final = help_
        self.read: Final = read
        self.many: Final = many
        self.required: Final = required


class Command:
    """A command: a function with a keyword for each option and argument, and how they are typed.

    Defaults are those of the function, its docstring is the help. Where the last argument is a
    command of the user's (``words``), no option stands behind its first word.
    """

    def __init__(
        self,
        run: Callable[..., int | None],
        parts: Sequence[Option | Argument],
        examples: tuple[str, ...],
        words: bool,
    ) -> None:
        self.run: Final = run
        self.options: Final = [part for part in parts if isinstance(part, Option)]
        self.arguments: Final = [part for part in parts if isinstance(part, Argument)]
        self.examples: Final = examples
        self.words: Final = words

    def default(self, part: Option | Argument) -> Any:
        """Return the value of what was not given."""
        switch = isinstance(part, Option) and part.read is None
        common = () if part.many else False if switch else None
        return (self.run.__kwdefaults__ or {}).get(part.name, common)

    def read(self, line: Sequence[str]) -> dict[str, Any] | None:
        """Return the values of a command line; None where it has a mistake or asks for help."""
        parts: list[Option | Argument] = [*self.options, *self.arguments]
        values = {part.name: self.default(part) for part in parts}
        try:
            rest = self._options(iter(self.ordered(line)), values)
            for argument in self.arguments:
                taken, rest = (rest, []) if argument.many else (rest[:1], rest[1:])
                read = tuple(argument.read(one) for one in taken)
                if read:
                    values[argument.name] = read if argument.many else read[0]
                elif argument.required:
                    return None
        except (KeyError, ValueError):
            return None
        return None if rest else values

    def _options(self, line: Any, values: dict[str, Any]) -> list[str]:
        """Take the options of a command line, and return the rest."""
        flags = {flag: option for option in self.options for flag in option.flags}
        rest: list[str] = []
        for word in line:
            if word == "--":
                break
            if word[:1] != "-" or word == "-":
                rest.append(word)
                if self.words:
                    break
                continue
            # ``-n5`` is left to Typer.
            flag, equals, value = word.partition("=") if word[:2] == "--" else (word, "", "")
            option = flags[flag]
            if option.read is None:
                if equals:
                    raise ValueError
                values[option.name] = True
                continue
            if not equals:
                value = next(line, None)
                if value is None:
                    raise ValueError
            read = option.read(value)
            values[option.name] = (*values[option.name], read) if option.many else read
        return [*rest, *line]

    def ordered(self, line: Sequence[str]) -> list[str]:
        """Return a command line in an order that tells its words from its options.

        A job file comes last: options may stand behind it. A number below 0 is no option.
        """
        if not self.words:
            return self._numbers_last(line)
        at = self._first_word(line, 0)
        behind = self._first_word(line, at + 1)
        if at < len(line) <= behind and is_job_file(line[at]):
            return [*line[:at], *line[at + 1 :], line[at]]
        return [*line]

    def _numbers_last(self, line: Sequence[str]) -> list[str]:
        """Return a command line with numbers below 0 behind ``--``, but for values of options."""
        if "--" in line:
            return [*line]
        valued = {flag for option in self.options if option.read for flag in option.flags}
        numbers = {
            at
            for at, word in enumerate(line)
            if word[:1] == "-" and word[1:].isdecimal() and (not at or line[at - 1] not in valued)
        }
        rest = [word for at, word in enumerate(line) if at not in numbers]
        return [*rest, *(("--", *(line[at] for at in sorted(numbers))) if numbers else ())]

    def _first_word(self, line: Sequence[str], at: int) -> int:
        """Return where the first word is that is no option nor its value; ``at`` is the first."""
        valued = {flag for option in self.options if option.read for flag in option.flags}
        while at < len(line) and line[at][:1] == "-" and line[at] != "--":
            at += 2 if line[at] in valued else 1
        return at


def is_job_file(word: str) -> bool:
    """Tell whether the first word of a command names a job file."""
    return word.endswith((".yaml", ".yml"))


class CommandGroup:
    """Commands below one name, such as ``warren user add``."""

    def __init__(self, help_: str, commands: dict[str, Command], examples: tuple[str, ...]) -> None:
        self.help: Final = help_
        self.commands: Final = commands
        self.examples: Final = examples


SERVER: Final = Option(
    "--server",
    "Service to ask: the path of its socket, or HOST:PORT#sha256=HEX for one elsewhere. "
    "Default: WARREN_SERVER, else ~/.warren/serve/socket.",
    "PATH|URL",
    str,
)
JSON: Final = Option("--json", "Print only JSON on standard output.", name="json_")


def command(
    *parts: Option | Argument, examples: Iterable[str], words: bool = False
) -> Callable[[Callable[..., int | None]], Command]:
    """Declare the function below as a command; its name is in ``names.py``."""

    def declare(run: Callable[..., int | None]) -> Command:
        return Command(run, parts, tuple(examples), words)

    return declare
