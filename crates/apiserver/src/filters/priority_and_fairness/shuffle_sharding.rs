//! Shuffle sharding: each flow gets a hand of a level's queues, so that two flows rarely share all of theirs.
//!
//! The algorithm is that of Kubernetes' `apiserver/pkg/util/shufflesharding`.

/// The largest hand: the hash has 60 bits, and a queue of the smallest deck that allows it takes four.
pub(crate) const MAX_HAND_SIZE: usize = 15;
/// The bits of the hash that may be used without bias.
const HASH_BITS: f64 = 60.0;
const MAX_DECK_SIZE: usize = 1 << 26;

/// Deals hands of queues. The deck is at least as large as the hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dealer {
    deck_size: usize,
    hand_size: usize,
}

/// The queues of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hand {
    queues: [usize; MAX_HAND_SIZE],
    size: usize,
}

impl Dealer {
    /// A dealer for this many queues; `None` if the hash has too few bits for the hand, or the hand is larger than the
    /// deck.
    pub(crate) fn try_new(deck_size: usize, hand_size: usize) -> Option<Self> {
        let fits = (1..=deck_size.min(MAX_HAND_SIZE)).contains(&hand_size) && deck_size <= MAX_DECK_SIZE;
        (fits && entropy_bits(deck_size, hand_size) <= HASH_BITS).then_some(Self { deck_size, hand_size })
    }

    /// The hand of a flow with this hash: distinct queues.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a remainder is less than the size of the deck"
    )]
    pub(crate) fn deal(self, mut hash: u64) -> Hand {
        let mut queues = [0; MAX_HAND_SIZE];
        for (dealt, slot) in queues.iter_mut().take(self.hand_size).enumerate() {
            let left = (self.deck_size - dealt) as u64;
            *slot = (hash % left) as usize;
            hash /= left;
        }
        let remainders = queues;
        for (dealt, queue) in queues.iter_mut().take(self.hand_size).enumerate() {
            for remainder in remainders[..dealt].iter().rev() {
                *queue += usize::from(*queue >= *remainder);
            }
        }
        Hand {
            queues,
            size: self.hand_size,
        }
    }
}

impl Hand {
    /// The queues, beginning at an offset: flows that share queues do not all prefer the same one.
    pub(crate) fn from(&self, offset: usize) -> impl Iterator<Item = usize> {
        (0..self.size).map(move |at| self.queues[(offset + at) % self.size])
    }
}

#[allow(clippy::cast_precision_loss, reason = "both numbers are small")]
fn entropy_bits(deck_size: usize, hand_size: usize) -> f64 {
    ((deck_size as f64).log2() * hand_size as f64).ceil()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(deck: usize, hand: usize, hash: u64, expected: &[usize]) {
        let dealt = Dealer::try_new(deck, hand).unwrap().deal(hash);
        assert_eq!(dealt.from(0).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_hand_has_distinct_queues() {
        check(128, 3, 0, &[0, 1, 2]);
        check(128, 3, 5, &[5, 0, 1]);
        check(4, 4, 23, &[3, 2, 1, 0]);
        for hash in 0..5000_u64 {
            let hand = Dealer::try_new(16, 6)
                .unwrap()
                .deal(hash.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let mut queues: Vec<usize> = hand.from(2).collect();
            queues.sort_unstable();
            queues.dedup();
            assert_eq!(queues.len(), 6);
            assert!(queues.iter().all(|queue| *queue < 16));
        }
    }

    #[test]
    fn a_hand_that_the_hash_cannot_deal_is_rejected() {
        assert_eq!(Dealer::try_new(0, 1), None);
        assert_eq!(Dealer::try_new(4, 5), None);
        assert_eq!(Dealer::try_new(4, 0), None);
        assert_eq!(Dealer::try_new(512, 8), None);
        assert!(Dealer::try_new(512, 6).is_some());
    }
}
