//! Means of what is drawn, against the integrals of the model's densities.

use super::*;

const DRAWS: usize = 200_000;

fn random() -> Pcg64Mcg {
    Pcg64Mcg::new(7)
}

fn mean(draw: impl FnMut(usize) -> f64) -> f64 {
    (0..DRAWS).map(draw).sum::<f64>() / DRAWS as f64
}

/// Integral of f from `from` to `to`, by the midpoint rule.
fn integral(from: f64, to: f64, f: impl Fn(f64) -> f64) -> f64 {
    let step = (to - from) / 20_000.0;
    (0..20_000)
        .map(|i| f(from + (f64::from(i) + 0.5) * step) * step)
        .sum()
}

/// A gamma density: its integral is 1 by construction.
fn density(Shape(shape, scale): Shape) -> impl Fn(f64) -> f64 {
    let peak = (shape - 1.0) * scale;
    let bare = move |x: f64| ((shape - 1.0) * (x / peak).ln() - (x - peak) / scale).exp();
    let whole = integral(0.0, 60.0, bare);
    move |x| bare(x) / whole
}

/// Sizes on 128 processors. Batch: the power is uniform from 1.2 to 5 (0.875) and from 5 to 7.
#[test]
fn sizes_have_the_models_means() {
    for kind in [Kind::Batch, Kind::Interactive] {
        let c = kind.constants();
        let (low, high) = (c.low, 7.0 - c.high_below_machine);
        let middle = high - c.middle_below_high;
        let expect = |f: &dyn Fn(f64) -> f64| {
            c.first_stage * integral(low, middle, f) / (middle - low)
                + (1.0 - c.first_stage) * integral(middle, high, f) / (high - middle)
        };
        let expected = c.serial
            + c.power_of_two * expect(&|x: f64| x.round().exp2())
            + (1.0 - c.serial - c.power_of_two) * expect(&|x: f64| x.exp2().round());
        let sizes = Sizes::new(kind, 128);
        let mut random = random();
        let mut serial = 0;
        let mut powers = 0;
        let found = mean(|_| {
            let size = sizes.draw(&mut random);
            assert!((1..=128).contains(&size));
            serial += usize::from(size == 1);
            powers += usize::from(size.is_power_of_two());
            f64::from(size)
        });
        assert!((found / expected - 1.0).abs() < 0.01, "{found} {expected}");
        let part = |count: usize| count as f64 / DRAWS as f64;
        assert!((part(serial) - c.serial).abs() < 0.004, "{serial}");
        assert!(part(powers) > c.serial + c.power_of_two - 0.004, "{powers}");
    }
}

#[test]
fn sizes_fit_every_machine() {
    for machine in [1, 2, 3, 5, 64, 100, 1000, 1 << 20] {
        for kind in [Kind::Batch, Kind::Interactive] {
            let sizes = Sizes::new(kind, machine);
            let mut random = random();
            let largest = (0..DRAWS).map(|_| sizes.draw(&mut random)).max();
            assert!(largest <= Some(machine), "{largest:?} of {machine}");
            let expected = match kind {
                Kind::Batch => machine / 2,
                Kind::Interactive => machine / 4,
            };
            assert!(largest >= Some(expected.max(1)), "{largest:?} of {machine}");
        }
    }
}

#[test]
fn run_times_have_the_models_means() {
    for (kind, size) in [
        (Kind::Batch, 1),
        (Kind::Batch, 64),
        (Kind::Interactive, 1),
        (Kind::Interactive, 32),
    ] {
        let c = kind.constants();
        let run_times = RunTimes::new(kind);
        let short = run_times.short_probability(size);
        let (a, b) = (density(c.short), density(c.long));
        let mixed = |x: f64| short * a(x) + (1.0 - short) * b(x);
        let kept = integral(0.0, 12.0, mixed);
        let expected = integral(0.0, 12.0, |x| x.exp() * mixed(x)) / kept;
        let mut random = random();
        let found = mean(|_| f64::from(run_times.draw(size, &mut random)));
        // Whole seconds: half a second less.
        assert!(
            ((found + 0.5) / expected - 1.0).abs() < 0.03,
            "{kind:?} {size}: {found} {expected}"
        );
    }
    let batch = RunTimes::new(Kind::Batch);
    assert!((batch.short_probability(100) - 0.3986).abs() < 1e-12);
    assert_eq!(batch.short_probability(1000), 0.0);
}

/// The longest gap, exp(13), is far out in its tail: without it the mean of exp(g) would be
/// (1 - scale)^-shape.
#[test]
fn gaps_have_the_models_mean() {
    for kind in [Kind::Batch, Kind::Interactive] {
        let gap = kind.constants().gap;
        let density = density(gap);
        let kept = integral(0.0, LONGEST_GAP, &density);
        let expected = integral(0.0, LONGEST_GAP, |x| x.exp() * density(x)) / kept;
        let mut arrivals = Arrivals::new(kind);
        let mut random = random();
        let mut last = 0.0;
        for _ in 0..DRAWS {
            last = arrivals.draw(&mut random);
        }
        let found = last / DRAWS as f64;
        assert!(
            (found / expected - 1.0).abs() < 0.05,
            "{kind:?}: {found} {expected}"
        );
    }
}

#[test]
fn the_day_has_its_busy_hours() {
    for kind in [Kind::Batch, Kind::Interactive] {
        let day = Day::new(kind);
        assert_eq!(day.time(0.0), 0.0);
        assert_eq!(day.time(DAY * 3.0), DAY * 3.0);
        let mut last = -1.0;
        for step in 0..10_000 {
            let time = day.time(f64::from(step) * 30.0);
            assert!(time > last);
            last = time;
        }
        let busiest = (1..=SLICES)
            .max_by(|a, b| {
                let part = |i: &usize| day.sums[*i] - day.sums[*i - 1];
                part(a).total_cmp(&part(b))
            })
            .expect("a day");
        // The mode of the gamma is (shape - 1) × scale half hours: 27.0 for batch and 29.0 for
        // interactive, 13:30 and 14:30. Slice i, counted from 1, is around place i.
        let Shape(shape, scale) = kind.constants().day;
        let mode = ((shape - 1.0) * scale).round() as usize;
        assert_eq!(busiest, mode, "{kind:?}");
        // From 4 o'clock in the night a quarter of that or less.
        let part = |i: usize| day.sums[i + 1] - day.sums[i];
        assert!(part(8) < part(mode - 1) / 4.0, "{:?}", day.sums);
    }
}
