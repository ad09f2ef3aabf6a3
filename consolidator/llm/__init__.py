"""What stands between the log and a model: redaction now; client, prompts, tokens and prices where a model is used."""
