"""The rules that no world may break, each in a module of its own that knows nothing of how worlds are made."""
