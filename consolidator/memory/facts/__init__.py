"""Facts: what people said that lasts, each with its quote, its interval of validity and its evidence.

By rules: `value_checks` limits the rows of the table (`rules`); `statements` applies it to a sentence,
`endings` finds what a sentence takes back, `instructions` orders that may be repeated, and `rule_extraction` reads
events. By a model: `questions` has what it is asked and what its answers may become. Both give `candidates`.

A model's candidates are first compared with the facts there are: `triage` decides what is clear, and what each counts
for, a question to a model the rest. Then `reconcile` turns all candidates of an attribute into facts,
and `corrections` applies what people told memory themselves.

No fact without a verbatim quote, no quote from an agent, and no order from a tool that a person did not review. Facts
are a function of the set of candidates: nothing here may depend on the order or the number of nights.
"""
