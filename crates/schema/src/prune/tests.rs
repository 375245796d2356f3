//! Tests of this file's parent.
