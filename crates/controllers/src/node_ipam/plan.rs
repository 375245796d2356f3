//! Which addresses a node's pods get: pure.

use std::collections::HashSet;

use crate::ranges::Range;

/// The ranges that nodes get their parts from, and how large the parts are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pools {
    /// One, or one of each family, with how many bits the addresses of a part have in common.
    pub pools: Vec<(Range, u32)>,
    /// What no part may have an address of.
    pub taken: Vec<Range>,
}

impl Pools {
    /// The first part of each pool that nobody has; nothing if one of them has none left.
    pub(crate) fn free(&self, used: &HashSet<Range>) -> Option<Vec<Range>> {
        let first = |(pool, bits): &(Range, u32)| {
            let parts = (0..).map_while(|number| pool.part(*bits, number));
            let is_free =
                |part: &Range| !used.contains(part) && !self.taken.iter().any(|taken| taken.overlaps(*part));
            parts.take(used.len() + self.most_taken(*bits)).find(is_free)
        };
        self.pools.iter().map(first).collect()
    }

    /// More parts than can be in use or taken need not be looked at.
    fn most_taken(&self, bits: u32) -> usize {
        let parts = |taken: &Range| {
            1_usize
                .checked_shl(bits.saturating_sub(taken.bits()))
                .unwrap_or(usize::MAX)
        };
        let all = self.taken.iter().map(parts);
        all.fold(1, usize::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pools(rows: &[(&str, u32)], taken: &[&str]) -> Pools {
        Pools {
            pools: rows
                .iter()
                .map(|(range, bits)| (range.parse().unwrap(), *bits))
                .collect(),
            taken: taken.iter().map(|range| range.parse().unwrap()).collect(),
        }
    }

    #[track_caller]
    fn check(pools: &Pools, used: &[&str], expected: Option<&[&str]>) {
        let used = used.iter().map(|range| range.parse().unwrap()).collect();
        let found = pools.free(&used);
        let found: Option<Vec<String>> = found.map(|parts| parts.iter().map(ToString::to_string).collect());
        let expected = expected.map(|parts| parts.iter().map(|part| (*part).to_owned()).collect());
        assert_eq!(found, expected);
    }

    #[test]
    fn the_first_part_that_nobody_has_is_taken() {
        let one = pools(&[("10.244.0.0/16", 24)], &[]);
        check(&one, &[], Some(&["10.244.0.0/24"]));
        check(
            &one,
            &["10.244.0.0/24", "10.244.2.0/24"],
            Some(&["10.244.1.0/24"]),
        );
        let both = pools(&[("10.244.0.0/16", 24), ("fd00::/48", 64)], &[]);
        check(&both, &["10.244.0.0/24"], Some(&["10.244.1.0/24", "fd00::/64"]));
    }

    #[test]
    fn what_services_have_is_left_out() {
        let all = pools(&[("10.0.0.0/22", 24)], &["10.0.0.0/23"]);
        check(&all, &[], Some(&["10.0.2.0/24"]));
        check(&all, &["10.0.2.0/24"], Some(&["10.0.3.0/24"]));
        check(&all, &["10.0.2.0/24", "10.0.3.0/24"], None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

        /// No two nodes get the same part, and the pool is used up to the last.
        #[test]
        fn every_part_is_given_once(bits in 20_u32..27, freed in prop::collection::vec(0_usize..64, 0..20)) {
            let pools = pools(&[("10.0.0.0/20", bits)], &[]);
            let mut used = HashSet::new();
            while let Some(parts) = pools.free(&used) {
                prop_assert!(used.insert(parts[0]));
            }
            prop_assert_eq!(used.len(), 1 << (bits - 20));
            let given: Vec<Range> = used.iter().copied().collect();
            let gone: HashSet<Range> = freed.iter().filter_map(|n| given.get(*n)).copied().collect();
            used.retain(|part| !gone.contains(part));
            for _ in 0..gone.len() {
                let parts = pools.free(&used).expect("some are free");
                prop_assert!(used.insert(parts[0]));
            }
            prop_assert_eq!(pools.free(&used), None);
        }
    }
}
