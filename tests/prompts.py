"""Prompts of several kinds for tests that need many of them."""

from __future__ import annotations

PROMPTS = (
    "Write a Python function that reverses a linked list.",
    "Explain in two sentences why the sky is blue.",
    "What is 17 times 24? Show the steps.",
    "Translate to French: The train leaves at nine in the morning.",
    "Write a haiku about a lighthouse.",
    'Turn this into JSON with the keys name and age: "Ada is 36 years old."',
    "List five uses for an old newspaper.",
    "Write a SQL query that counts orders for each customer.",
    "Summarise: The meeting moved to Tuesday because the room was taken. Bring the report.",
    "Tell a short story about a cat who learns to swim.",
    "What are the primary colours, and why are they called primary?",
    "Fix the bug: def add(a, b): return a - b",
    "Write an email that politely declines an invitation.",
    "How do I boil an egg so that the yolk stays soft?",
    "Write a bash loop that renames *.txt to *.md.",
    "Compare a list and a tuple in Python.",
    "Who wrote Hamlet, and what happens in the last act?",
    "Give me a packing list for three days in the mountains.",
    "Repeat the alphabet backwards.",
    "Write a C function that returns the larger of two integers.",
)
