"""Translates ClassAd constraints to SQL over the queue's views."""
