"""A LangGraph agent that knows in one thread what it was told in another: `python examples/langgraph_store.py`.

It needs `pip install 'consolidator[langgraph]' langgraph`, and no model: its one node is a plain function.
"""

from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

from consolidator.integrations.langgraph import ConsolidatorStore


def answer(state: MessagesState, runtime: Runtime) -> dict:
    """Keep what the user says, and repeat what was said before."""
    memories = ("memories", "mara")
    before = [item.value["said"] for item in runtime.store.search(memories)]
    said = state["messages"][-1].content
    runtime.store.put(memories, str(len(before)), {"said": said})
    return {"messages": [("assistant", f"You said {said!r}; before that: {before}")]}


with ConsolidatorStore() as store:
    graph = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").compile(store=store)
    for words in ("I like tea", "I live in Bern"):
        result = graph.invoke({"messages": [("user", words)]})
        print(result["messages"][-1].content)
    print(store.list_namespaces())
