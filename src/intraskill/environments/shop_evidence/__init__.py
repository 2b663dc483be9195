"""What the episodes of a shop show: pages read as data, the decisions behind a purchase, and lessons on them."""
