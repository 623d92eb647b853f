"""Where replies come from: each module speaks to one kind of source, in the values of ``core/chat/backend.py``."""
