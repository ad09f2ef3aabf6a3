"""Redaction: hides credentials as `[redacted:kind]` before a model, memory or an export sees a text.

`redact` (texts and JSON values) asks three finders: `forms` (values known by their form, such as providers' tokens and
private keys), `names` (values beside a telling name) and `places` (options of commands, headers, manifests, tables).
`values` judges a value by itself. Each finder yields spans; `redact` merges and replaces them.

What may not happen here: logging or storing a hidden value, reading a file or a network, or a result that changes when
a text is redacted again. Every pattern is bounded, so that hostile texts cost no more than others.
"""
