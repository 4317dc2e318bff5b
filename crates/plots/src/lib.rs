//! Markup and plots, which the live page and the reports share, and columns of text: it knows numbers and texts, nothing of jobs.
//!
//! Pure: numbers in, text out. HTML is made by templates ([`maud`]), plots are SVG of our own. Every text that comes from outside is
//! escaped where it is written ([`markup::Escaped`]); the same numbers give the same bytes. Nothing needs a script or the network, so a
//! page can be mailed, printed and kept.
//!
//! A plot for a file of its own:
//!
//! ```
//! use libra_plots::{Axis, Plot, Point, Series};
//! let plot = Plot {
//!     title: "Fulfilled jobs against load".to_string(),
//!     x: Axis::linear("arrival delay factor"),
//!     y: Axis::linear("fulfilled, % of submitted jobs"),
//!     series: vec![Series::new("libra", vec![
//!         Point::between(0.5, 52.0, 50.5, 53.5),
//!         Point::between(1.0, 61.0, 60.0, 62.0),
//!     ])],
//!     ..Plot::default()
//! };
//! assert!(plot.svg().starts_with("<svg"));
//! ```

pub mod bars;
pub mod columns;
pub mod figure;
pub mod html;
mod marker;
pub mod markup;
pub mod plot;
pub mod scale;
pub mod strips;
pub mod style;

pub use bars::{Bars, Row, Segment};
pub use plot::{Plot, Point, Series};
pub use scale::{Axis, Scale};
pub use strips::{Strip, Strips};

/// Width and height of a drawing in CSS pixels, as it is laid out for; it scales from there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Size {
    /// Pixels.
    pub width: f64,
    /// Pixels.
    pub height: f64,
}

impl Size {
    /// For a wide screen or for paper.
    pub const WIDE: Size = Size {
        width: 840.0,
        height: 380.0,
    };
    /// For a telephone.
    pub const NARROW: Size = Size {
        width: 360.0,
        height: 320.0,
    };

    /// Too narrow for names beside lines and bars.
    pub fn is_narrow(&self) -> bool {
        self.width < 520.0
    }
}
