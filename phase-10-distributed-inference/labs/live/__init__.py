"""The labs' live engine: tiny models in a real vLLM, and what its workers hold and say."""
