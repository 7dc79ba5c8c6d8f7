"""The site: its pages, and what turns recordings and films into them."""
