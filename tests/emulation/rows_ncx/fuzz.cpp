#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <random>
#include "gpu/convolution_depthwise_rows_ncx.hpp"
using namespace gradnn::gpu;
int main(){ std::mt19937_64 r(1); auto lg=[&](double hi){ return (int64_t)std::exp2((double)(r()%100000)/100000*hi);}; long ok=0,no=0,ref=0; double worst=1;
 for(int it=0;it<200000;++it){ depthwise_shape s; s.images=lg(20); s.channels=lg(24); s.axes[0].read=s.axes[0].written=r()%3?1:lg(8); s.axes[1].read=s.axes[1].written=lg(12); int K=3+r()%63; int w=lg(28); s.axes[2].kernel=K; int before=r()%K; s.to_src=r()%2; s.axes[2].read=w; s.axes[2].written=std::max<int64_t>(1,w+before-(int64_t)(r()%(2*K))); s.axes[2].pad=s.to_src?K-1-before:before; if(s.axes[2].written>w+before) continue;
  int b=r()%2?4:8; if(!rows_ncx_take(s,b)){++ref;continue;} bool wt=!s.to_src&&r()%2; depthwise_rows_ncx c; int64_t sms=1+r()%200;
  if(!cut_rows_ncx(c,s,b,wt,sms,1024)){++no;continue;} ++ok; int run=rows_ncx_run(b);
  auto CHECK=[&](bool x,int l){ if(!x){std::printf("bad %d\n",l);std::abort();}};
  CHECK(c.shared_bytes<=49152,1); CHECK((int64_t)c.pieces*c.columns(run)>=s.axes[2].written && (int64_t)(c.pieces-1)*c.columns(run)<s.axes[2].written && (int64_t)c.pieces*c.columns(run)<INT32_MAX,2);
  CHECK((int64_t)c.rows*c.row_tiles>=c.channel_rows && (int64_t)c.rows*(c.row_tiles-1)<c.channel_rows,3); CHECK(c.threads>=c.rows*c.groups&&c.threads<=(wt?128:256),4);
  CHECK(c.jobs*c.chunks*8>=K+c.lead && c.jobs<=2 && c.chunks<=(wt?4:8),5); CHECK(c.rows<=c.threads,6);
  if(wt){ int64_t units=(int64_t)c.row_tiles*c.pieces; CHECK(c.parts>=1&&c.parts<=units,7); CHECK((units+c.parts-1)/c.parts*run<=1024+run,8);} 
  CHECK((int64_t)c.pitch*16>0 && c.pitch*b%16==0,9);
 } std::printf("host fuzz: cut %ld, too many %ld, not taken %ld\n",ok,no,ref);}
