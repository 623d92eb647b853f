"""Which environment variables are kept from child processes by their name. Pure; reads no environment.

Whoever starts a process decides what to do about it: a plan can ask for a variable by name, git gets what its
transports need.
"""

from __future__ import annotations

import re

OWN_PREFIX = "PILOTHOUSE_"

# Substrings, so that MYAPP_GITHUBTOKEN is caught too; what is withheld wrongly (KEYBOARD_LAYOUT) can be asked for by
# name. SSH_AUTH_SOCK and XAUTHORITY are withheld on purpose: they are no secrets but open the door to them, so a plan
# that pushes over SSH says ``inheritEnv: [SSH_AUTH_SOCK]``. Only AUTHOR (GIT_AUTHOR_NAME and the like), which merely
# contains AUTH, is let through; AUTHORITY and AUTHORIZATION are not. PASS and PWD are whole words only (DB_PASS,
# MYSQL_PWD): COMPASS and PASSENGERS are none, and PWD and OLDPWD are directories.
_LIKE_A_SECRET = re.compile(
    r"TOKEN|KEY|SECRET|PASSW(?:OR)?D|PASSPHRASE|(?<![A-Z])PASS(?![A-Z])|(?<=_)PWD|CREDENTIAL|AUTH(?!OR(?!I))",
    re.IGNORECASE,
)


def is_withheld(name: str) -> bool:
    """Whether a host variable of this name is our own or named like a secret."""
    return name.upper().startswith(OWN_PREFIX) or _LIKE_A_SECRET.search(name) is not None
