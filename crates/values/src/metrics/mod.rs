//! Metrics: histograms, and the encoder of Prometheus' text format.

mod histogram;
mod text;

pub use histogram::{AtomicHistogram, Histogram};
pub use text::{Buckets, MetricsSource, TextEncoder};
