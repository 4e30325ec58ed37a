"""ClassAds as fetchwork reads, prints, compares and evaluates them."""
