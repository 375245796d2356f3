//! Memory of values: the heap for small ones, an anonymous mapping for each large one.
//!
//! A heap allocator puts values of similar size into the same pages. When most versions of large values are compacted,
//! the few remaining ones keep all those pages alive. A mapping of its own is unmapped with its value.

use bytes::Bytes;
use memmap2::MmapMut;

/// Values of at least this size get a mapping; the rounding to whole pages is small compared to them.
const MMAP_BYTES: usize = 32 << 10;

/// Concatenates the pieces into memory of exactly their size.
pub(crate) fn concat(pieces: &[&[u8]]) -> Bytes {
    let length = pieces.iter().map(|piece| piece.len()).sum();
    // The number of mappings per process is limited; when none is available, the heap is used.
    match (length >= MMAP_BYTES).then(|| MmapMut::map_anon(length)) {
        Some(Ok(mut mapping)) => {
            fill(&mut mapping, pieces);
            Bytes::from_owner(mapping)
        }
        _ => pieces.concat().into(),
    }
}

fn fill(mut target: &mut [u8], pieces: &[&[u8]]) {
    for piece in pieces {
        let (here, rest) = target.split_at_mut(piece.len());
        here.copy_from_slice(piece);
        target = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_size_are_concatenated_in_order() {
        for length in [
            0,
            1,
            1000,
            MMAP_BYTES - 3,
            MMAP_BYTES - 2,
            MMAP_BYTES,
            5 * MMAP_BYTES + 7,
        ] {
            let long: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let whole = concat(&[b"a", &long, b"z"]);
            assert_eq!(whole, [b"a".as_slice(), &long, b"z"].concat(), "{length}");
        }
    }
}
