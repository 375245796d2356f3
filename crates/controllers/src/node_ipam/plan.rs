//! Which pod CIDRs a node gets. Pure.

use std::collections::HashSet;

use setpoint_values::Cidr;

/// The cluster CIDRs from which nodes get their pod CIDRs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterCidrs {
    /// One CIDR, or one of each IP family, each with the mask size of a node.
    pub pools: Vec<(Cidr, u32)>,
    /// CIDRs that no node may overlap, such as the service CIDR.
    pub excluded: Vec<Cidr>,
}

impl ClusterCidrs {
    /// The first free subnet of each CIDR; `None` if one of them is exhausted.
    pub(crate) fn first_free(&self, used: &HashSet<Cidr>) -> Option<Vec<Cidr>> {
        let first = |(pool, prefix_len): &(Cidr, u32)| {
            let subnets = (0..).map_while(|number| pool.subnet(*prefix_len, number));
            let is_free = |subnet: &Cidr| {
                !used.contains(subnet) && !self.excluded.iter().any(|excluded| excluded.overlaps(*subnet))
            };
            subnets
                .take(used.len() + self.excluded_subnets(*prefix_len))
                .find(is_free)
        };
        self.pools.iter().map(first).collect()
    }

    /// How many subnets the exclusions can cover: an upper bound of those to skip.
    fn excluded_subnets(&self, prefix_len: u32) -> usize {
        let subnets = |excluded: &Cidr| {
            1_usize
                .checked_shl(prefix_len.saturating_sub(excluded.prefix_len()))
                .unwrap_or(usize::MAX)
        };
        let all = self.excluded.iter().map(subnets);
        all.fold(1, usize::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pools(rows: &[(&str, u32)], excluded: &[&str]) -> ClusterCidrs {
        ClusterCidrs {
            pools: rows
                .iter()
                .map(|(range, prefix_len)| (range.parse().unwrap(), *prefix_len))
                .collect(),
            excluded: excluded.iter().map(|range| range.parse().unwrap()).collect(),
        }
    }

    #[track_caller]
    fn check(pools: &ClusterCidrs, used: &[&str], expected: Option<&[&str]>) {
        let used = used.iter().map(|range| range.parse().unwrap()).collect();
        let found = pools.first_free(&used);
        let found: Option<Vec<String>> =
            found.map(|subnets| subnets.iter().map(ToString::to_string).collect());
        let expected = expected.map(|subnets| subnets.iter().map(|subnet| (*subnet).to_owned()).collect());
        assert_eq!(found, expected);
    }

    #[test]
    fn the_first_free_subnet_is_allocated() {
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
    fn the_service_cidr_is_skipped() {
        let all = pools(&[("10.0.0.0/22", 24)], &["10.0.0.0/23"]);
        check(&all, &[], Some(&["10.0.2.0/24"]));
        check(&all, &["10.0.2.0/24"], Some(&["10.0.3.0/24"]));
        check(&all, &["10.0.2.0/24", "10.0.3.0/24"], None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

        /// No two nodes get the same subnet, and the CIDR is used up to the last one.
        #[test]
        fn every_subnet_is_allocated_once(prefix_len in 20_u32..27, freed in prop::collection::vec(0_usize..64, 0..20)) {
            let pools = pools(&[("10.0.0.0/20", prefix_len)], &[]);
            let mut used = HashSet::new();
            while let Some(subnets) = pools.first_free(&used) {
                prop_assert!(used.insert(subnets[0]));
            }
            prop_assert_eq!(used.len(), 1 << (prefix_len - 20));
            let allocated: Vec<Cidr> = used.iter().copied().collect();
            let freed_subnets: HashSet<Cidr> = freed.iter().filter_map(|n| allocated.get(*n)).copied().collect();
            used.retain(|subnet| !freed_subnets.contains(subnet));
            for _ in 0..freed_subnets.len() {
                let subnets = pools.first_free(&used).expect("some are free");
                prop_assert!(used.insert(subnets[0]));
            }
            prop_assert_eq!(pools.first_free(&used), None);
        }
    }
}
