"""Reading the queue: views, constraints, pages, summaries."""
