//! Tolerations and taints: whether a pod may be on a node that has a taint.
//!
//! The scheduler, the DaemonSet controller and the taint eviction controller must agree on it.

/// A toleration of a pod, borrowed from the component's own type. Absent fields are empty.
///
/// ```
/// use setpoint_values::toleration::{Taint, Toleration};
///
/// let taint = Taint { key: "gpu", value: "a100", effect: "NoSchedule" };
/// let toleration = Toleration { key: "gpu", operator: "Exists", value: "", effect: "" };
/// assert!(toleration.tolerates(taint));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Toleration<'a> {
    /// The key of the taint; empty for every key.
    pub key: &'a str,
    /// `Exists` or `Equal`; empty is `Equal`.
    pub operator: &'a str,
    /// The value of the taint, for `Equal`.
    pub value: &'a str,
    /// The effect of the taint; empty for every effect.
    pub effect: &'a str,
}

/// A taint of a node. Absent fields are empty.
#[derive(Debug, Clone, Copy)]
pub struct Taint<'a> {
    /// The key, such as `node.kubernetes.io/unreachable`.
    pub key: &'a str,
    /// The value, often empty.
    pub value: &'a str,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: &'a str,
}

impl Toleration<'_> {
    /// Whether it tolerates the taint. The operators `Gt` and `Lt` belong to a feature that Kubernetes 1.37 has off by
    /// default (`TaintTolerationComparisonOperators`), so they tolerate nothing.
    pub fn tolerates(self, taint: Taint<'_>) -> bool {
        let has_effect = self.effect.is_empty() || self.effect == taint.effect;
        let has_key = self.key.is_empty() || self.key == taint.key;
        has_effect
            && has_key
            && match self.operator {
                "" | "Equal" => self.value == taint.value,
                "Exists" => true,
                _ => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A toleration as `key operator value effect` with `-` for an empty field, against the taint `size=8:NoSchedule`.
    #[track_caller]
    fn check(toleration: &str, expected: bool) {
        let fields = toleration.split_whitespace();
        let fields: Vec<&str> = fields.map(|text| if text == "-" { "" } else { text }).collect();
        let [key, operator, value, effect] = fields[..] else {
            panic!("a toleration has four fields");
        };
        let toleration = Toleration {
            key,
            operator,
            value,
            effect,
        };
        let taint = Taint {
            key: "size",
            value: "8",
            effect: "NoSchedule",
        };
        assert_eq!(toleration.tolerates(taint), expected);
    }

    #[test]
    fn key_value_and_effect_must_match_where_they_are_set() {
        check("size Equal 8 NoSchedule", true);
        check("size - 8 -", true);
        check("size Equal 9 -", false);
        check("size Exists - NoExecute", false);
        check("other Exists - -", false);
        check("- Exists - -", true);
    }

    #[test]
    fn comparisons_tolerate_nothing() {
        check("size Gt 8 -", false);
        check("size Gt 1 -", false);
        check("size Lt 9 -", false);
        check("size Like 8 -", false);
    }
}
