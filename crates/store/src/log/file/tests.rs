//! Faults: what a failing disk and damaged files do to a store.
