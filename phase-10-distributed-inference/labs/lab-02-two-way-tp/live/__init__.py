"""Lab 02's live engine: a tiny Llama in a real vLLM, and what its workers hold and say."""
