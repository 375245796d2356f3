//! Reading of `/proc/self/smaps`: a line for each region, then one for each of its properties (proc(5)).

use std::ops::Range;

/// One region of the process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MemoryRegion<'a> {
    pub(crate) addresses: Range<usize>,
    /// `r-xp`: readable, not writable, executable, private.
    pub(crate) permissions: &'a str,
    /// The mapped file, or empty.
    pub(crate) path: &'a str,
    /// How much of it is in memory.
    pub(crate) resident_bytes: u64,
    /// How much of it has pages of its own, which do not equal the file. `None` if the kernel does not report it.
    pub(crate) anonymous_bytes: Option<u64>,
}

/// The regions of the process. Lines that are not understood are skipped.
pub(crate) fn parse(smaps: &str) -> Vec<MemoryRegion<'_>> {
    let mut regions: Vec<MemoryRegion<'_>> = Vec::new();
    for line in smaps.lines() {
        if let Some(region) = parse_head(line) {
            regions.push(region);
        } else if let (Some(region), Some((name, bytes))) = (regions.last_mut(), parse_property(line)) {
            match name {
                "Rss" => region.resident_bytes = bytes,
                "Anonymous" => region.anonymous_bytes = Some(bytes),
                _ => {}
            }
        }
    }
    regions
}

/// `address-address permissions offset device inode path`.
fn parse_head(line: &str) -> Option<MemoryRegion<'_>> {
    let (addresses, rest) = line.split_once(' ')?;
    let (start, end) = addresses.split_once('-')?;
    let (permissions, rest) = rest.split_once(' ')?;
    let path = rest.splitn(4, ' ').nth(3).unwrap_or_default().trim_start();
    Some(MemoryRegion {
        addresses: usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?,
        permissions,
        path,
        resident_bytes: 0,
        anonymous_bytes: None,
    })
}

/// `Name:   1234 kB`.
fn parse_property(line: &str) -> Option<(&str, u64)> {
    let (name, value) = line.split_once(':')?;
    let kilobytes: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
    Some((name, kilobytes * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_have_their_file_permissions_and_pages() {
        let smaps = include_str!("../testdata/smaps.txt");
        let expected = [
            (
                0x5611_091d_5000..0x5611_09e2_4000,
                "r--p",
                "/bin/a server",
                2048,
                Some(0),
            ),
            (
                0x7ffd_4ee0_0000..0x7ffd_4ee2_1000,
                "rw-p",
                "[stack]",
                16384,
                Some(16384),
            ),
            (0x7fac_5000_0000..0x7fac_5000_1000, "rw-p", "", 0, None),
        ];
        let expected = expected.map(
            |(addresses, permissions, path, resident_bytes, anonymous_bytes)| MemoryRegion {
                addresses,
                permissions,
                path,
                resident_bytes,
                anonymous_bytes,
            },
        );
        assert_eq!(parse(smaps), expected);
    }
}
