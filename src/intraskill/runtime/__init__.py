"""One home per heavy dependency: torch, transformers, peft, openai, wandb and the file system."""
