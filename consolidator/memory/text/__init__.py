"""The wording of messages: which sentences are a person's own, what they mean, and the words to search them by.

`markers` removes what memory itself put into a prompt and what is `private`, `pasted` finds what an author only shows
or quotes, and `sentences` cuts the rest into sentences. `phrasing` judges one sentence in English, `words` splits a
text of any language into searchable words, and `similarity` compares two sentences by these words.

Nothing here knows an event, a session or a fact: texts come in, texts and booleans go out.
"""
