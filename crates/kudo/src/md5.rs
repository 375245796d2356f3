//! MD5 (RFC 1321), for the hashes of dependencies, which KUDO defines by it. It protects nothing.

const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
const START: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// The digest of a message.
pub(crate) fn digest(message: &[u8]) -> [u8; 16] {
    let mut padded = message.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend((message.len() as u64 * 8).to_le_bytes());
    let mut state = START;
    for block in padded.chunks_exact(64) {
        state = add_block(state, block);
    }
    let mut digest = [0; 16];
    for (bytes, number) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
    digest
}

/// The digest in hexadecimal.
pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn add_block(state: [u32; 4], block: &[u8]) -> [u32; 4] {
    let mut numbers = [0u32; 16];
    for (number, bytes) in numbers.iter_mut().zip(block.chunks_exact(4)) {
        *number = bytes
            .iter()
            .rev()
            .fold(0, |number, byte| (number << 8) | u32::from(*byte));
    }
    let [mut a, mut b, mut c, mut d] = state;
    for i in 0..64 {
        let (mixed, index) = match i / 16 {
            0 => ((b & c) | (!b & d), i),
            1 => ((d & b) | (!d & c), (5 * i + 1) % 16),
            2 => (b ^ c ^ d, (3 * i + 5) % 16),
            _ => (c ^ (b | !d), (7 * i) % 16),
        };
        let sum = a
            .wrapping_add(mixed)
            .wrapping_add(constant(i))
            .wrapping_add(numbers[index]);
        (a, d, c) = (d, c, b);
        b = b.wrapping_add(sum.rotate_left(SHIFTS[i / 16][i % 4]));
    }
    let sums = state.iter().zip([a, b, c, d]);
    let mut next = [0; 4];
    for (next, (old, new)) in next.iter_mut().zip(sums) {
        *next = old.wrapping_add(new);
    }
    next
}

/// The constants are the sines of the steps.
fn constant(step: usize) -> u32 {
    let sine = ((step + 1) as f64).sin().abs();
    (sine * 4_294_967_296.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, expected: &str) {
        assert_eq!(hex(&digest(message.as_bytes())), expected);
    }

    #[test]
    fn the_digests_are_those_of_the_rfc() {
        check("", "d41d8cd98f00b204e9800998ecf8427e");
        check("abc", "900150983cd24fb0d6963f7d28e17f72");
        check(
            "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
            "57edf4a22be3c955ac49da2e2107b67a",
        );
    }
}
