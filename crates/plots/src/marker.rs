//! The markers of styles, which tell lines apart where colours do not.

use super::markup::{Drawing, Px};
use super::style::{STYLES, fill, number};

/// Draws the marker of a style around a point.
pub fn marker(drawing: &mut Drawing, style: usize, x: f64, y: f64) {
    let at = |dx: f64, dy: f64| format!("{} {}", Px(x + dx), Px(y + dy));
    let polygon = |corners: &[(f64, f64)]| {
        let corners: Vec<String> = corners.iter().map(|&(dx, dy)| at(dx, dy)).collect();
        format!("M{}Z", corners.join("L"))
    };
    let circle = |radius: f64| {
        let (r, d) = (Px(radius), Px(2.0 * radius));
        format!(
            "M{}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0Z",
            at(-radius, 0.0)
        )
    };
    let data = match number(style) {
        0 => circle(4.2),
        STYLES => circle(3.0),
        1 => polygon(&[(-3.8, -3.8), (3.8, -3.8), (3.8, 3.8), (-3.8, 3.8)]),
        2 => polygon(&[(0.0, -5.0), (4.8, 3.6), (-4.8, 3.6)]),
        3 => polygon(&[(0.0, -5.3), (5.3, 0.0), (0.0, 5.3), (-5.3, 0.0)]),
        4 => polygon(&[(0.0, 5.0), (4.8, -3.6), (-4.8, -3.6)]),
        // Half a circle, a plus and an hourglass.
        5 => format!("M{}a4.6 4.6 0 0 1 9.2 0Z", at(-4.6, 2.2)),
        6 => polygon(&[
            (-1.6, -5.0),
            (1.6, -5.0),
            (1.6, -1.6),
            (5.0, -1.6),
            (5.0, 1.6),
            (1.6, 1.6),
            (1.6, 5.0),
            (-1.6, 5.0),
            (-1.6, 1.6),
            (-5.0, 1.6),
            (-5.0, -1.6),
            (-1.6, -1.6),
        ]),
        _ => polygon(&[(-4.6, -4.6), (4.6, -4.6), (-4.6, 4.6), (4.6, 4.6)]),
    };
    drawing.path(&format!("marker {}", fill(Some(style))), &data);
}
