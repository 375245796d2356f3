//! [`Threshold`]: how little of a resource may be available before pods are evicted.

use std::str::FromStr;

use setpoint_api::Quantity;
use setpoint_api::quantity::Format;

use super::pressure::Pressure;

/// The kubelet's default thresholds on Linux.
pub const DEFAULT_HARD: &str = "imagefs.available<15%,imagefs.inodesFree<5%,memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%";

/// A measured amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// Memory that is free or can be freed, in bytes.
    MemoryAvailable,
    /// Space on the disk of volumes and logs, in bytes.
    NodeFsAvailable,
    /// Inodes on the disk of volumes and logs.
    NodeFsInodesFree,
    /// Space on the disk of images and containers, in bytes.
    ImageFsAvailable,
    /// Inodes on the disk of images and containers.
    ImageFsInodesFree,
    /// Process ids.
    PidAvailable,
}

/// The least amount of a signal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// The signal.
    pub signal: Signal,
    /// The amount.
    pub value: ThresholdValue,
}

/// An amount, or a part of the capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ThresholdValue {
    /// An amount.
    Quantity(Quantity),
    /// Per cent of the capacity.
    Percentage(f32),
}

/// Names of the kubelet's configuration.
const SIGNALS: [(&str, Signal); 6] = [
    ("memory.available", Signal::MemoryAvailable),
    ("nodefs.available", Signal::NodeFsAvailable),
    ("nodefs.inodesFree", Signal::NodeFsInodesFree),
    ("imagefs.available", Signal::ImageFsAvailable),
    ("imagefs.inodesFree", Signal::ImageFsInodesFree),
    ("pid.available", Signal::PidAvailable),
];

// === impl Signal ===

impl Signal {
    /// The resource that is low, as the kubelet's messages name it.
    pub(super) fn resource(self) -> &'static str {
        match self {
            Self::MemoryAvailable => "memory",
            Self::NodeFsAvailable | Self::ImageFsAvailable => "ephemeral-storage",
            Self::NodeFsInodesFree | Self::ImageFsInodesFree => "inodes",
            Self::PidAvailable => "pids",
        }
    }

    pub(super) fn pressure(self) -> Pressure {
        match self {
            Self::MemoryAvailable => Pressure::Memory,
            Self::PidAvailable => Pressure::Pid,
            _ => Pressure::Disk,
        }
    }

    /// How amounts of it are printed.
    pub(super) fn format(self) -> Format {
        match self {
            Self::MemoryAvailable | Self::NodeFsAvailable | Self::ImageFsAvailable => Format::BinarySi,
            _ => Format::DecimalSi,
        }
    }
}

// === impl Threshold ===

impl Threshold {
    /// The least amount on a node with this capacity.
    pub(super) fn amount(&self, capacity: i64) -> Quantity {
        match self.value {
            ThresholdValue::Quantity(quantity) => quantity,
            ThresholdValue::Percentage(percentage) => {
                let amount = capacity as f64 * f64::from(percentage) / 100.0;
                Quantity::new(amount as i64, self.signal.format())
            }
        }
    }
}

/// Parses thresholds in the syntax of the kubelet's `--eviction-hard`: `memory.available<100Mi,nodefs.available<10%`.
/// Those of 0% and 100% are left out, as by the kubelet.
pub fn parse(text: &str) -> Result<Vec<Threshold>, String> {
    let mut thresholds: Vec<Threshold> = Vec::new();
    for statement in text.split(',').filter(|statement| !statement.is_empty()) {
        let threshold: Threshold = statement.parse()?;
        if thresholds.iter().any(|one| one.signal == threshold.signal) {
            return Err(format!("duplicate eviction threshold {statement:?}"));
        }
        thresholds.push(threshold);
    }
    let is_disabled = |value: ThresholdValue| matches!(value, ThresholdValue::Percentage(part) if part <= 0.0 || part >= 100.0);
    thresholds.retain(|one| !is_disabled(one.value));
    Ok(thresholds)
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(statement: &str) -> Result<Self, String> {
        let invalid =
            || format!("invalid eviction threshold syntax {statement}, expected <signal><operator><value>");
        let (name, value) = statement.split_once('<').ok_or_else(invalid)?;
        let signal = SIGNALS.iter().find(|(own, _)| *own == name);
        let (_, signal) = signal.ok_or_else(|| format!("unsupported eviction signal {name}"))?;
        let value = match value.strip_suffix('%') {
            Some(part) => {
                let part: f32 = part.parse().map_err(|_| invalid())?;
                if !(0.0..=100.0).contains(&part) {
                    return Err(format!(
                        "eviction percentage threshold {name} must be between 0% and 100%: {value}"
                    ));
                }
                ThresholdValue::Percentage(part)
            }
            None => {
                let quantity: Quantity = value.parse().map_err(|_| invalid())?;
                if quantity.is_negative() || quantity.is_zero() {
                    return Err(format!("eviction threshold {name} must be positive: {value}"));
                }
                ThresholdValue::Quantity(quantity)
            }
        };
        Ok(Self {
            signal: *signal,
            value,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, capacity: i64, expected: &str) {
        let thresholds = parse(text).map(|thresholds| {
            let shown = |one: &Threshold| format!("{} {}", one.signal.resource(), one.amount(capacity));
            thresholds.iter().map(shown).collect::<Vec<_>>().join(", ")
        });
        let shown = thresholds.unwrap_or_else(|error| error);
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_threshold_is_an_amount_or_a_part_of_the_capacity() {
        check(
            "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%",
            1000,
            "memory 100Mi, ephemeral-storage 100, inodes 50",
        );
        check("nodefs.available<0%,pid.available<100%", 1000, "");
        assert_eq!(parse(DEFAULT_HARD).unwrap().len(), 5);
    }

    #[test]
    fn what_is_not_a_threshold_is_an_error() {
        check("disk<1", 0, "unsupported eviction signal disk");
        let syntax = "invalid eviction threshold syntax memory.available, expected <signal><operator><value>";
        check("memory.available", 0, syntax);
        check(
            "memory.available<0",
            0,
            "eviction threshold memory.available must be positive: 0",
        );
    }
}
