//! Recording events.
