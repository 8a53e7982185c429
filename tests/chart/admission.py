"""The admission policies of the chart, evaluated with a library of their language."""

from __future__ import annotations

import functools
import json
import re
from copy import deepcopy
from typing import Any, Final

import cel

from tests.chart.rendered_chart import Json, one

# Objects of an expression become maps here: the library knows no types of Kubernetes.
_TYPE: Final = re.compile(r"\b(?:JSONPatch|Object(?:\.\w+)*)\s*\{")
_FIELD: Final = re.compile(r"(?<=[{,\s])([A-Za-z]\w*):(?=\s)(?!\s*\()")


@functools.cache
def _program(expression: str) -> cel.Program:
    return cel.compile(expression)


def _evaluate(expression: str, context: Json) -> Any:  # noqa: ANN401 - whatever the expression gives
    return _program(expression).execute(context)


def _with_variables(spec: Json, context: Json) -> Json:
    variables: Json = {}
    for each in spec.get("variables", ()):
        variables[each["name"]] = _evaluate(each["expression"], {**context, "variables": variables})
    return {**context, "variables": variables}


def refusals(objects: list[Json], policy: str, value: Json, operation: str = "CREATE") -> list[str]:
    """The messages with which a policy refuses an object; an expression that fails refuses, too."""
    spec = one(objects, "ValidatingAdmissionPolicy", policy)["spec"]
    assert spec["failurePolicy"] == "Fail"
    context = _with_variables(spec, {"object": value, "request": {"operation": operation}})
    if not all(_evaluate(each["expression"], context) for each in spec.get("matchConditions", ())):
        return []
    found: list[str] = []
    for each in spec["validations"]:
        try:
            holds = _evaluate(each["expression"], context)
        except (RuntimeError, TypeError, ValueError) as error:
            holds = False
            found.append(f"error: {error}")
        if not holds:
            found.append(each["message"].strip())
    return found


def completed(objects: list[Json], pod: Json) -> Json:
    """The pod as the mutation leaves it, or as it is if the mutation is not for it."""
    spec = one(objects, "MutatingAdmissionPolicy")["spec"]
    made = deepcopy(pod)
    if not all(_evaluate(each["expression"], {"object": made}) for each in spec["matchConditions"]):
        return made
    for mutation in spec["mutations"]:
        context = _with_variables(spec, {"object": made})
        if mutation["patchType"] == "JSONPatch":
            for patch in _evaluate(_plain(mutation["jsonPatch"]["expression"]), context):
                _apply(made, patch)
        else:
            wanted = _evaluate(_plain(mutation["applyConfiguration"]["expression"]), context)
            _merge(made, json.loads(json.dumps(wanted)))
    return made


def _plain(expression: str) -> str:
    return _FIELD.sub(r"'\1':", _TYPE.sub("{", expression))


def _apply(value: Json, patch: Json) -> None:
    *way, last = patch["path"].split("/")[1:]
    place: Any = value
    for step in way:
        place = place[int(step)] if isinstance(place, list) else place[step]
    if patch["op"] == "remove":
        del place[int(last) if isinstance(place, list) else last]
    elif isinstance(place, list):
        place.insert(len(place) if last == "-" else int(last), patch["value"])
    else:
        place[last] = patch["value"]


def _merge(value: Json, wanted: Json) -> None:
    """Merge as an API server does: items of a list by their name, or by their place for mounts."""
    for key, new in wanted.items():
        old = value.get(key)
        if isinstance(new, dict) and isinstance(old, dict):
            _merge(old, new)
        elif isinstance(new, list) and isinstance(old, list):
            mark = "mountPath" if key == "volumeMounts" else "name"
            for item in new:
                same = [each for each in old if each[mark] == item[mark]]
                _merge(same[0], item) if same else old.append(item)
        else:
            value[key] = new
