//! Ranges of sizes and costs, with arithmetic that stops at the greatest number.

/// A least and a greatest size or cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub min: u64,
    pub max: u64,
}

impl Range {
    pub(crate) const ZERO: Self = Self::fixed(0);
    pub(crate) const UNKNOWN: Self = Self {
        min: 0,
        max: u64::MAX,
    };

    pub(crate) const fn fixed(size: u64) -> Self {
        Self { min: size, max: size }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    pub(crate) fn times(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    /// Multiplies by a factor, rounded up.
    pub(crate) fn scaled(self, factor: f64) -> Self {
        let scale = |size: u64| (size as f64 * factor).ceil();
        let limited = |cost: f64| {
            if cost >= 18_446_744_073_709_551_616.0 {
                u64::MAX
            } else {
                cost as u64
            }
        };
        Self {
            min: limited(scale(self.min)),
            max: limited(scale(self.max)),
        }
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}
