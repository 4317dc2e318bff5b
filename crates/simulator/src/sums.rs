//! Sums and spreads that stay exact over long runs.

use serde::Serialize;

/// A compensated sum (Neumaier 1974) that knows how many values it has.
///
/// A log holds jobs of a second and jobs of a week; added up plainly, two hundred thousand of them
/// lose digits that depend on their order.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sum {
    sum: f64,
    lost: f64,
    count: u64,
}

impl Sum {
    /// Adds one value.
    pub fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        self.lost += if self.sum.abs() >= value.abs() {
            (self.sum - sum) + value
        } else {
            (value - sum) + self.sum
        };
        self.sum = sum;
        self.count += 1;
    }

    /// The sum; 0 of no values.
    pub fn total(&self) -> f64 {
        self.sum + self.lost
    }

    /// How many values were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean; none of no values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.total() / self.count as f64)
    }
}

impl FromIterator<f64> for Sum {
    fn from_iter<T: IntoIterator<Item = f64>>(values: T) -> Sum {
        let mut sum = Sum::default();
        values.into_iter().for_each(|value| sum.add(value));
        sum
    }
}

/// Mean and standard deviation of one measure over runs that differ in their seed alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The mean of the runs that have the measure.
    pub mean: f64,
    /// Standard deviation of a sample (n - 1); 0 for a single run.
    pub deviation: f64,
}

impl Spread {
    /// Of these values; None if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let values: Vec<f64> = values.into_iter().collect();
        let mean = values.iter().copied().collect::<Sum>().mean()?;
        let squares: Sum = values.iter().map(|v| (v - mean) * (v - mean)).collect();
        let deviation = match values.len() {
            1 => 0.0,
            n => (squares.total() / (n - 1) as f64).sqrt(),
        };
        Some(Spread { mean, deviation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_values_beside_large_ones_are_not_lost() {
        // Plainly added, each of the ones vanishes beside 1e16: the sum would be 0.
        let values = std::iter::once(1e16)
            .chain(std::iter::repeat_n(1.0, 1000))
            .chain(std::iter::once(-1e16));
        let sum: Sum = values.collect();
        assert_eq!(sum.total(), 1000.0);
        assert_eq!(sum.count(), 1002);
        assert_eq!(Sum::default().mean(), None);
    }

    #[test]
    fn spread_of_a_sample() {
        // Mean 5, squares 9 + 1 + 1 + 9 = 20, over n - 1 = 3.
        let spread = Spread::of([2.0, 4.0, 6.0, 8.0]).expect("values");
        assert_eq!(spread.mean, 5.0);
        assert!((spread.deviation - (20.0f64 / 3.0).sqrt()).abs() < 1e-12);
        let one = Spread {
            mean: 3.0,
            deviation: 0.0,
        };
        assert_eq!(Spread::of([3.0]), Some(one));
        assert_eq!(Spread::of([]), None);
    }
}
