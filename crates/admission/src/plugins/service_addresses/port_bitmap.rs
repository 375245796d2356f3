//! The bitmap of node ports, as kube-apiserver has it in etcd.

use std::collections::BTreeSet;

use setpoint_registry_api::RangeAllocation;

/// The allocated ports that are in the range `first` to `last`. The stored range may be another one: then it is that of
/// another configuration, and is replaced with the next write, as kube-apiserver does at its start.
pub(super) fn decode(allocation: &RangeAllocation, (first, last): (u16, u16)) -> BTreeSet<i64> {
    let Some(base) = base(&allocation.range) else {
        return BTreeSet::new();
    };
    let mut ports = BTreeSet::new();
    for (index, byte) in allocation.data.iter().rev().enumerate() {
        let bits = (0..8).filter(|bit| byte & (1 << bit) != 0);
        ports.extend(bits.map(|bit| base + 8 * index as i64 + bit));
    }
    ports.retain(|port| (i64::from(first)..=i64::from(last)).contains(port));
    ports
}

/// The bitmap of these ports of the range.
pub(super) fn encode(ports: &BTreeSet<i64>, (first, last): (u16, u16)) -> RangeAllocation {
    let offsets = ports
        .range(i64::from(first)..=i64::from(last))
        .map(|port| (port - i64::from(first)) as usize);
    let mut data = Vec::new();
    for offset in offsets {
        data.resize(data.len().max(offset / 8 + 1), 0);
        data[offset / 8] |= 1 << (offset % 8);
    }
    data.reverse();
    RangeAllocation {
        range: format!("{first}-{last}"),
        data,
    }
}

/// The first port of a range.
fn base(range: &str) -> Option<i64> {
    range.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: (u16, u16) = (30_000, 32_767);

    #[track_caller]
    fn check(ports: &[i64], data: &[u8]) {
        let ports: BTreeSet<i64> = ports.iter().copied().collect();
        let encoded = encode(&ports, RANGE);
        assert_eq!((encoded.range.as_str(), &encoded.data[..]), ("30000-32767", data));
        assert_eq!(decode(&encoded, RANGE), ports);
    }

    #[test]
    fn the_lowest_bit_is_that_of_the_first_port() {
        check(&[], &[]);
        check(&[30_000], &[1]);
        check(&[30_007, 30_008], &[1, 0x80]);
        check(&[30_000, 30_017], &[2, 0, 1]);
    }

    #[test]
    fn ports_of_another_range_keep_their_numbers() {
        let stored = encode(&BTreeSet::from([30_000, 30_100]), RANGE);
        assert_eq!(decode(&stored, (30_050, 30_150)), BTreeSet::from([30_100]));
        assert_eq!(encode(&BTreeSet::from([29_999, 30_001]), RANGE).data, [2]);
    }
}
