"""DescribeAcls (29), CreateAcls (30), DeleteAcls (31): refused, for we have no authorizer.

Source: Kafka's AclApis, which answers so when ``authorizer.class.name`` is not set.
"""

from __future__ import annotations

from typing import Any, Final

from node.driver.apis.call import Call
from node.driver.apis.fields import fields_of
from node.driver.apis.registry import Listener, serves
from node.driver.apis.serving import Serving
from node.wire.api import ApiKey

_SECURITY_DISABLED: Final = 54
_WHY: Final = "No Authorizer is configured."


def _refusal() -> dict[str, Any]:
    return fields_of(_SECURITY_DISABLED, _WHY)


@serves(ApiKey.DESCRIBE_ACLS, Listener.CONTROLLER, Listener.BROKER)
def describe_acls(serving: Serving, call: Call) -> None:
    """One error for the whole."""
    serving.answer(call, call.struct(**_refusal(), resources=()))


@serves(ApiKey.CREATE_ACLS, Listener.CONTROLLER, Listener.BROKER)
def create_acls(serving: Serving, call: Call) -> None:
    """One error for each entry."""
    row = call.struct("AclCreationResult", **_refusal())
    serving.answer(call, call.struct(results=(row,) * len(call.body.creations)))


@serves(ApiKey.DELETE_ACLS, Listener.CONTROLLER, Listener.BROKER)
def delete_acls(serving: Serving, call: Call) -> None:
    """One error for each filter."""
    row = call.struct("DeleteAclsFilterResult", **_refusal(), matching_acls=())
    serving.answer(call, call.struct(filter_results=(row,) * len(call.body.filters)))
