"""What a model is asked about a session, and what of its answer may become a fact.

`session_lines` and `call_lines` read events, `transcript` cuts them into questions, `shared_question` puts several into
one, and `extraction_prompt` says what to look for. `model_extraction` makes candidates of an answer, within the `gate`;
`quote_repair` asks once more for wrong quotes. `merge_question` asks which facts the candidates are about.
"""
