"""For those who test what they build on consolidator: a stand-in for a model's server."""

from consolidator.testing.model_server import ModelServer
from consolidator.testing.replies import ScriptedReply

__all__ = ["ModelServer", "ScriptedReply"]
