"""General helpers that do not depend on devices or frameworks."""
