//! Streams of random numbers that are the same on every machine and in every version.
//!
//! Invariant: what a stream yields depends on its three numbers alone. Every bit of them goes
//! into its start, so streams of neighbouring numbers have nothing in common.

use rand_pcg::Pcg64Mcg;

/// The mixing step of SplitMix64 (Steele, Lea and Flood 2014): every bit of the result depends on
/// every bit of `word`.
fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The stream of a seed for this property of the thing of this number.
pub(super) fn stream(seed: u64, number: u32, property: u32) -> Pcg64Mcg {
    let high = mix(mix(seed) ^ u64::from(number));
    let low = mix(high ^ (u64::from(property) << 32));
    Pcg64Mcg::new((u128::from(high) << 64) | u128::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;

    #[test]
    fn neighbouring_streams_have_nothing_in_common() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..100 {
            for number in 0..25 {
                for property in 0..4 {
                    seen.insert(stream(seed, number, property).random::<u64>());
                }
            }
        }
        assert_eq!(seen.len(), 10_000);
        // Bits of first draws are set half of the time: 5000 ± 4 × 50.
        for bit in 0..64 {
            let set = seen.iter().filter(|word| *word >> bit & 1 == 1).count();
            assert!((4800..5200).contains(&set), "{bit}: {set}");
        }
    }

    #[test]
    fn a_stream_is_the_same_for_ever() {
        // SplitMix64's own first output for the seed 0.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        let mut a = stream(1, 2, 3);
        let mut b = stream(1, 2, 3);
        assert_eq!(a.random::<u64>(), b.random::<u64>());
    }
}
