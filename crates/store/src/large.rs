//! Where the bytes of values are kept.
//!
//! An allocator keeps values of one size side by side. When most versions of large values are forgotten, the few that
//! stay keep the memory of all. So a large value has a mapping of its own, which goes back to the system with it.

use bytes::Bytes;
use memmap2::MmapMut;

/// From this size on, what a mapping rounds up to is little beside the value.
const LARGE: usize = 32 << 10;

/// The pieces in one, in memory of exactly their size.
pub(crate) fn joined(pieces: &[&[u8]]) -> Bytes {
    let length = pieces.iter().map(|piece| piece.len()).sum();
    // The system has only so many mappings; without one, the heap does.
    match (length >= LARGE).then(|| MmapMut::map_anon(length)) {
        Some(Ok(mut mapping)) => {
            fill(&mut mapping, pieces);
            Bytes::from_owner(mapping)
        }
        _ => pieces.concat().into(),
    }
}

fn fill(mut place: &mut [u8], pieces: &[&[u8]]) {
    for piece in pieces {
        let (here, rest) = place.split_at_mut(piece.len());
        here.copy_from_slice(piece);
        place = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_stand_one_behind_the_other_whatever_their_size() {
        for length in [0, 1, 1000, LARGE - 3, LARGE - 2, LARGE, 5 * LARGE + 7] {
            let long: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let whole = joined(&[b"a", &long, b"z"]);
            assert_eq!(whole, [b"a".as_slice(), &long, b"z"].concat(), "{length}");
        }
    }
}
