//! Limits of the estimated cost of rules.

use setpoint_api::field::Errors;

/// The most that all evaluations of one rule may cost, by estimate (upstream: `StaticEstimatedCostLimit`).
pub(super) const MAX_EXPRESSION_COST: u64 = 10_000_000;

/// The most that all rules of a schema may cost, by estimate (upstream: `StaticEstimatedCRDCostLimit`).
const MAX_TOTAL_COST: u64 = 100_000_000;

/// How many of the most expensive rules are reported.
const REPORTED_RULES: usize = 4;

/// The cost of all rules of a schema.
#[derive(Debug, Default)]
pub(super) struct TotalCost {
    total: u64,
    /// The rules that cost at least a hundredth of the limit, the most expensive first.
    most_expensive: Vec<(Errors, u64)>,
}

impl TotalCost {
    pub(super) fn add(&mut self, at: &Errors, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost >= MAX_TOTAL_COST / 100 {
            let index = self.most_expensive.partition_point(|(_, other)| *other >= cost);
            self.most_expensive.insert(index, (at.clone(), cost));
            self.most_expensive.truncate(REPORTED_RULES);
        }
    }

    pub(super) fn report(&self, root: &Errors) {
        if self.total <= MAX_TOTAL_COST {
            return;
        }
        for (at, _) in &self.most_expensive {
            at.forbidden(
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
            );
        }
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        root.forbidden(&cost_message(name, self.total, MAX_TOTAL_COST));
    }
}

/// The message about a cost above its limit.
pub(super) fn cost_message(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        // One more digit would be "1.0x".
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cost: u64, expected: &str) {
        let message = cost_message("estimated rule cost", cost, MAX_EXPRESSION_COST);
        let factor = message.strip_prefix("estimated rule cost exceeds budget by factor of ");
        let factor = factor.and_then(|factor| factor.split_once(" ("));
        assert_eq!(factor.unwrap().0, expected);
    }

    #[test]
    fn the_factor_has_as_many_digits_as_are_useful() {
        check(10_500_000, "1.050000x");
        check(25_060_000, "2.5x");
        check(u64::MAX, "more than 100x");
    }
}
