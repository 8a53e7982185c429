"""The variables of a pod whose proxy has its certificate in a folder: a bundle and the authority, no more."""

from __future__ import annotations

from string import Formatter
from typing import Final

from egress.runtime.kit.variables import ADDING_VARIABLES, PROXY_VARIABLES, REPLACING_VARIABLES

BUNDLE_NAME: Final = "bundle.pem"
AUTHORITY_NAME: Final = "ca.pem"


def trust_folder_variables(proxy: str, folder: str) -> dict[str, str]:
    """Return the variables by which programs find the proxy, a URL, and its certificate in this folder."""
    places = {
        "proxy": proxy,
        "bundle": f"{folder}/{BUNDLE_NAME}",
        "certificate": f"{folder}/{AUTHORITY_NAME}",
    }
    return {
        variable.name: variable.value.format_map(places)
        for variable in (*PROXY_VARIABLES, *REPLACING_VARIABLES, *ADDING_VARIABLES)
        # The folder has two files: a variable that names another one would lead nowhere.
        if {name for _, name, _, _ in Formatter().parse(variable.value) if name} <= places.keys()
    }
