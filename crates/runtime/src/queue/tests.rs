//! client-go's rules for the work queue.
