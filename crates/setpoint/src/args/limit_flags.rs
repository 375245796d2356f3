//! Flags of the limits that protect the server.

use setpoint_api::Quantity;

/// The flags of the limits.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitFlags {
    /// Memory of the process above which expensive requests (large bodies, lists of everything, applies) get 429, such as
    /// `2Gi`; `0` is no limit [default: 75 % of the memory of the machine or of its cgroup].
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub max_memory: Option<u64>,
}

/// Parses a number of bytes, written as a quantity.
fn bytes(text: &str) -> Result<u64, String> {
    let quantity: Quantity = text.parse().map_err(|error| format!("{error}"))?;
    u64::try_from(quantity.value()).map_err(|_| "must not be negative".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_quantity() {
        assert_eq!(bytes("2Gi"), Ok(2 << 30));
        assert_eq!(bytes("500M"), Ok(500_000_000));
        assert_eq!(bytes("0"), Ok(0));
        assert!(bytes("-1").is_err());
        assert!(bytes("much").is_err());
    }
}
