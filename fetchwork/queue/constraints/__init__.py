"""ClassAd constraints as SQL, over the views of the queue."""
