"""The terminal app: a chat whose side panel shows what the pair of models really does."""
